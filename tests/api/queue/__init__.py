"""The queue between API processes and a zone, in one loop and over a real socket."""
