"""One round of decisions: policies asked, answers checked, sizes chosen, reasons explained."""
