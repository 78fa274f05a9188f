import type { Confirmation, RunStatement, Statement } from './driver.ts'

/** For a statement that failed: 0 if the error means that it changed no row, otherwise rejects with it. `run` is in the same transaction. */
export async function confirmNone({ none, confirm }: Statement, error: unknown, run: RunStatement): Promise<0> {
  if (none?.(error) !== true) throw error
  if (confirm !== undefined && !(await isConfirmed(confirm, run))) throw error
  return 0
}

async function isConfirmed({ sql, parameters, refused }: Confirmation, run: RunStatement): Promise<boolean> {
  try {
    return (await run(sql, parameters)).rows.length > 0
  } catch (error) {
    if (refused(error)) return true
    throw error
  }
}
