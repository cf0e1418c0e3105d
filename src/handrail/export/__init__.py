"""A policy in a file that runs without Handrail, with the report of its constraints inside."""

from handrail.export.exported import Exported
from handrail.export.numpy_file import LOADER, export_numpy
from handrail.export.onnx_file import export_onnx
from handrail.export.opened_export import OpenedExport, open_export

__all__ = [
    "LOADER",
    "Exported",
    "OpenedExport",
    "export_numpy",
    "export_onnx",
    "open_export",
]
