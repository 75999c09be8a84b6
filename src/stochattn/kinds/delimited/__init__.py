"""Delimited text and spreadsheets: lines, cells, and the notations of numbers.

The extensions of these files are here, so that looking at the name of a file loads nothing else.
"""

COMMAS = (".csv", ".txt")
TABS = (".tsv", ".tab")
PARQUET = (".parquet", ".pq")
SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
EXTENSIONS = (*COMMAS, *TABS, *PARQUET, *SPREADSHEETS)
SHEET_HELP = "Sheet of a spreadsheet, by its name or number. [the first that holds a table of numbers]"
