"""Results made visible: model -> rich renderables, HTML, CSV; nothing here prints."""
