"""How the archive's tables came to be what they are, step by step; `Database.prepare` runs what is missing."""
