"""Generators of kernels for GPUs: work-items in work-groups, written for the OpenCL calling convention."""
