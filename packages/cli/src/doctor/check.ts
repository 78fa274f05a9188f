/** One thing that was looked at. */
export interface Check {
  readonly name: string
  /** `warning`: it works, and somebody should know. `unknown`: it could not be found out. */
  readonly state: 'ok' | 'warning' | 'problem' | 'unknown'
  /** What was found, and what to do about it. */
  readonly text: string
}

export function check(name: string, state: Check['state'], text: string): Check {
  return { name, state, text }
}

/** Looks; what it fails with is a finding, too. */
export async function look(name: string, find: () => Promise<Check>): Promise<Check> {
  try {
    return await find()
  } catch (error) {
    return check(name, 'unknown', `It could not be found out: ${error instanceof Error ? error.message : String(error)}`)
  }
}
