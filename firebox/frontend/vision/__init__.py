"""Images, `fb.vision`: colours, filters, morphology, boxes, regions and maps of the plane."""

from firebox.frontend.vision.colors import gray_to_rgb, hsv_to_rgb, rgb_to_gray, rgb_to_hsv
from firebox.frontend.vision.detection import box_iou, component_stats, connected_components, nms
from firebox.frontend.vision.filters import box_blur, filter2d, gram_matrix, median_blur
from firebox.frontend.vision.morphology import dilate, erode, structuring_element
from firebox.frontend.vision.transforms import Transform2d

__all__ = [
    "Transform2d",
    "box_blur",
    "box_iou",
    "component_stats",
    "connected_components",
    "dilate",
    "erode",
    "filter2d",
    "gram_matrix",
    "gray_to_rgb",
    "hsv_to_rgb",
    "median_blur",
    "nms",
    "rgb_to_gray",
    "rgb_to_hsv",
    "structuring_element",
]
