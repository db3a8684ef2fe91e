"""How Sphinx builds these pages: MyST Markdown, furo, nothing fetched from elsewhere."""

project = "regard"
author = "The regard maintainers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "regard"
myst_heading_anchors = 3
