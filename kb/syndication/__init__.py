"""What machines read of the site: feeds, sitemap, badges, what a page says."""
