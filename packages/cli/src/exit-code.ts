/** What the command ends with. Scripts rely on the numbers: docs/guides/command.md lists them. */
export const exitCode = {
  ok: 0,
  /** It ran, and what it was to do or to check did not come out well. */
  failed: 1,
  /** Arguments, environment or configuration file. */
  usage: 2,
  unreachable: 3,
  /** Credentials, privileges, or a database that does not exist. */
  refused: 4,
  /** The tables are missing, or of another version. */
  schema: 5,
  /** Ctrl-C or SIGTERM before the end. */
  interrupted: 130,
} as const

export type ExitCode = (typeof exitCode)[keyof typeof exitCode]
