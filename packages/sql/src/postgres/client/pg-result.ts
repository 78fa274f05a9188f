import type { StatementResult } from '../../contract/driver.ts'

/** Reads what `pg` answers, where an ORM hands it on. Several statements have several answers, which nobody looks at. */
export function readPgResult(answer: unknown): StatementResult {
  const { rows = [], rowCount } = answer as { readonly rows?: StatementResult['rows']; readonly rowCount?: number | null }
  return { rows, count: countOf(rowCount) ?? 0 }
}

/** `undefined` for a command that counts no rows, such as COMMIT: there the native client of pg has NaN where the other one has null. */
export function countOf(rowCount: number | null | undefined): number | undefined {
  return typeof rowCount === 'number' && !Number.isNaN(rowCount) ? rowCount : undefined
}

/** Whether this is a client of `pg.native`, which is libpq. */
export function isNative(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'native' in client
}

/**
 * Parameters of a statement of ours for the native client of pg. It passes every parameter to libpq as a C string: bytes would be cut off at
 * the first zero and read as escapes at each backslash. As PostgreSQL's hexadecimal text they arrive unchanged.
 */
export function nativeParameters(parameters: readonly unknown[]): unknown[] {
  return parameters.map((value) => (value instanceof Uint8Array ? `\\x${hexOf(value)}` : value))
}

function hexOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('hex')
}
