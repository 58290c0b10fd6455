"""Reports of results: their content, and its output on a terminal, as HTML, CSV or Markdown."""
