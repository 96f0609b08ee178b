"""Tables, plots and HTML pages of the metrics of runs."""
