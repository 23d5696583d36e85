from tests.readers.conftest import deck_pptx, handbook_docx, report_pdf

__all__ = ["deck_pptx", "handbook_docx", "report_pdf"]
