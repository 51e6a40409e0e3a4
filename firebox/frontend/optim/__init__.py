"""Optimizers, learning-rate schedules, gradient clipping and averages of parameters."""

from firebox.frontend.optim.average import ExponentialAverage
from firebox.frontend.optim.clip import clip_grad_norm_, clip_grad_value_, grad_norm
from firebox.frontend.optim.optimizer import SGD, Adam, AdamW, Optimizer, RMSprop
from firebox.frontend.optim.rules import AdamRule, RMSpropRule, Rule, SGDRule
from firebox.frontend.optim.schedules import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    LinearSchedule,
    Schedule,
    StepSchedule,
)

__all__ = [
    "SGD",
    "Adam",
    "AdamRule",
    "AdamW",
    "ConstantSchedule",
    "CosineSchedule",
    "ExponentialAverage",
    "ExponentialSchedule",
    "LinearSchedule",
    "Optimizer",
    "RMSprop",
    "RMSpropRule",
    "Rule",
    "SGDRule",
    "Schedule",
    "StepSchedule",
    "clip_grad_norm_",
    "clip_grad_value_",
    "grad_norm",
]
