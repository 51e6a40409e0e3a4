"""Functions on arrays, written once against `ArrayLike`, by topic; `firebox.frontend.nn.functional` has them all."""
