/** The result codes that the library depends on, by the number in `errcode` of node:sqlite. */
const names: Readonly<Record<number, string>> = {
  1: 'ERROR',
  5: 'BUSY',
  6: 'LOCKED',
  8: 'READONLY',
  10: 'IOERR',
  13: 'FULL',
}

/** The primary result code of SQLite (`BUSY_SNAPSHOT` is `BUSY`); `undefined` for other errors. */
export function sqliteCodeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  // node:sqlite has the extended code, whose low byte is the primary one.
  if ('errcode' in error && typeof error.errcode === 'number') return names[error.errcode & 0xff] ?? 'OTHER'
  if (!('code' in error) || typeof error.code !== 'string') return undefined
  return /^SQLITE_([A-Z]+)/.exec(error.code)?.[1]
}

/** Whether another connection blocks, so that a retry may succeed. */
export function isLocked(error: unknown): boolean {
  const code = sqliteCodeOf(error)
  return code === 'BUSY' || code === 'LOCKED'
}
