"""What people look at: text and plots. The only place that draws."""
