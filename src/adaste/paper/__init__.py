"""The paper as data: its tables and figures, the recipes behind them, and what runs say about each cell."""
