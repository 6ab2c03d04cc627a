"""Runs in folders: training that is recorded, resumed, evaluated and exported; studies of many runs."""
