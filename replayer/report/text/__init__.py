"""Reports as plain text: CSV, Markdown, the manual page."""
