import type { StatementResult } from '../../contract/driver.ts'

/** Reads an answer of `pg` that an ORM passes on. Several statements have several answers, which are not used. */
export function readPgResult(answer: unknown): StatementResult {
  const { rows = [], rowCount } = answer as { readonly rows?: StatementResult['rows']; readonly rowCount?: number | null }
  return { rows, count: countOf(rowCount) ?? 0 }
}

/** `undefined` for a command that counts no rows, such as COMMIT: the native client of pg reports NaN there, the other one null. */
export function countOf(rowCount: number | null | undefined): number | undefined {
  return typeof rowCount === 'number' && !Number.isNaN(rowCount) ? rowCount : undefined
}

/** Whether this is a client of `pg.native`, which uses libpq. */
export function isNative(client: unknown): boolean {
  return typeof client === 'object' && client !== null && 'native' in client
}

/**
 * Parameters of a statement of the library for the native client of pg. It passes every parameter to libpq as a C string: bytes would be cut off at
 * the first zero, and backslashes read as escapes. As PostgreSQL's hexadecimal format they arrive unchanged.
 */
export function nativeParameters(parameters: readonly unknown[]): unknown[] {
  return parameters.map((value) => (value instanceof Uint8Array ? `\\x${hexOf(value)}` : value))
}

function hexOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('hex')
}
