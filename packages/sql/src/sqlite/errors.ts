/** Those that something here depends on, by the number that node:sqlite has in `errcode`. */
const names: Readonly<Record<number, string>> = {
  1: 'ERROR',
  5: 'BUSY',
  6: 'LOCKED',
  8: 'READONLY',
  10: 'IOERR',
  13: 'FULL',
}

/** By what SQLite tells errors apart, without what makes it finer (`BUSY_SNAPSHOT` is `BUSY`); `undefined` for errors that are not its own. */
export function sqliteCodeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  // node:sqlite has the extended number, whose low byte is the plain one.
  if ('errcode' in error && typeof error.errcode === 'number') return names[error.errcode & 0xff] ?? 'OTHER'
  if (!('code' in error) || typeof error.code !== 'string') return undefined
  return /^SQLITE_([A-Z]+)/.exec(error.code)?.[1]
}

/** Whether another connection is in the way, and it may work a little later. */
export function isLocked(error: unknown): boolean {
  const code = sqliteCodeOf(error)
  return code === 'BUSY' || code === 'LOCKED'
}
