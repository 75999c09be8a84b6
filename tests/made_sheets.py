"""Spreadsheets as programs save them, made of their parts: a zip of XML."""

import datetime
import zipfile
from xml.sax.saxutils import escape

EPOCH = datetime.datetime(1899, 12, 30)
DATE, TIME, LENGTH = 1, 2, 3  # styles
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
MANIFEST = 'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"'
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def _cell(value):
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime.datetime):
        return f'<c s="{DATE}"><v>{(value - EPOCH) / datetime.timedelta(days=1)!r}</v></c>'
    if isinstance(value, datetime.timedelta):
        return f'<c s="{LENGTH}"><v>{value / datetime.timedelta(days=1)!r}</v></c>'
    if isinstance(value, datetime.time):
        return f'<c s="{TIME}"><v>{(value.hour * 60 + value.minute) / 1440!r}</v></c>'
    if isinstance(value, str) and value.startswith("#") and value.endswith("!"):
        return f'<c t="e"><v>{value}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f"<c><v>{value!r}</v></c>"


def write_xlsx(path, sheets):
    """A file .xlsx of sheets by name, each a list of rows."""
    names = list(enumerate(sheets, 1))
    formats = {DATE: "yyyy\\-mm\\-dd", TIME: "hh:mm", LENGTH: "[h]:mm:ss"}
    codes = "".join(f'<numFmt numFmtId="{163 + i}" formatCode="{code}"/>' for i, code in formats.items())
    styles = "".join(f'<xf numFmtId="{163 + i}" applyNumberFormat="1"/>' for i in formats)
    files = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/></Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{LINKS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets>'
        + "".join(f'<sheet name="{escape(name)}" sheetId="{i}" r:id="rId{i}"/>' for i, name in names)
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        + "".join(
            f'<Relationship Id="rId{i}" Type="{LINKS}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i, _ in names
        )
        + f'<Relationship Id="rId99" Type="{LINKS}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><numFmts count="3">{codes}</numFmts>'
        f'<cellXfs count="4"><xf numFmtId="0"/>{styles}</cellXfs></styleSheet>',
    }
    for i, name in names:
        rows = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in sheets[name])
        files[f"xl/worksheets/sheet{i}.xml"] = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


def write_ods(path, sheets):
    """A file .ods of sheets by name, each a list of rows of texts and numbers."""

    def cell(value):
        if isinstance(value, int | float):
            return f'<table:table-cell office:value-type="float" office:value="{value!r}"/>'
        if value is None:
            return "<table:table-cell/>"
        return f'<table:table-cell office:value-type="string"><text:p>{escape(value)}</text:p></table:table-cell>'

    kinds = "".join(
        f' xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"' for one in ("office", "table", "text")
    )
    body = "".join(
        f'<table:table table:name="{escape(name)}">'
        + "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", ODS)
        archive.writestr("META-INF/manifest.xml", f'<?xml version="1.0"?><manifest:manifest {MANIFEST}/>')
        archive.writestr(
            "content.xml",
            f'<?xml version="1.0" encoding="UTF-8"?><office:document-content{kinds}><office:body><office:spreadsheet>'
            f"{body}</office:spreadsheet></office:body></office:document-content>",
        )
