"""The front end for asyncio. Its twin for threads has the same files in the same order."""
