"""Reports of results: model -> rich renderables, HTML, CSV, Markdown; nothing here prints."""
