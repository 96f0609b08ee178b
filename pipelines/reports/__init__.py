"""Tables, plots and the page that show what metrics files hold."""
