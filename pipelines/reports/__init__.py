"""Tables, plots and the page that show the metrics of runs."""
