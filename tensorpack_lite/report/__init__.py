"""
The report of training runs: one HTML file with their curves, images, notes and settings.

**In:** directories of training runs, which may be incomplete or damaged; no TensorFlow. **Out:** the text of a page that needs
no network, no server and no scripts to be read. **Next:** `cli/report.py` and `callbacks/report.py` write it.

`reading.py` reads a directory, `summary.py` finds the sentences and values that matter, `charts.py` and `pictures.py` draw,
`sections.py` and `page.py` assemble the page. Only `html.py` creates markup, so that every value is escaped.
"""
