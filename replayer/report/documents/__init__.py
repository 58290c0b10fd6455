"""The subjects of reports: each makes a document, and knows no writer."""
