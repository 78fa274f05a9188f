/** Now, in whole milliseconds. SQLite has no server: it is the clock of the machine, which all processes on the file share. */
export const now = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER)`
