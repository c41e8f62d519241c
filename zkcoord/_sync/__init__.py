"""The front end for threads. Its twin for asyncio has the same files in the same order."""
