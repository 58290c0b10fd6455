"""The subjects of reports: each module builds a Document, and does not depend on any writer."""
