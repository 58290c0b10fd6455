"""Reports: turn results into rich renderables, HTML, CSV and Markdown; nothing here prints."""
