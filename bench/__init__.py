"""What is measured: `python -m bench` runs all, `python -m bench fold sim` some. Figures, not laws."""
