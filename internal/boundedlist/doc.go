// Package boundedlist reads lists from clusters that their users can fill with anything, within limits on
// memory.
//
// Read reads page by page and hands each page to a function, which keeps of it what it needs. Pages begin small and
// grow as long as they stay small in bytes; one that turns out too large is cut off while it arrives, and requested
// again in parts. Bound prepares the connection for that: no response of the cluster is read beyond MaxResponse,
// whoever requests it.
package boundedlist
