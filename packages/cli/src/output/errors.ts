export interface CommandErrorOptions {
  readonly exitCode: ExitCode
  /** What to do about it, in one line. Default: nothing is suggested. */
  readonly hint?: string | undefined
  readonly cause?: unknown
}

/** A failure that is told to the user in one line and a hint, without a stack. */
export class CommandError extends Error {
  static {
    this.prototype.name = 'CommandError'
  }

  readonly exitCode: ExitCode
  readonly hint: string | undefined

  constructor(message: string, options: CommandErrorOptions) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.exitCode = options.exitCode
    this.hint = options.hint
  }
}

/** By Ctrl-C or a signal: what a session's signal is aborted with. */
export function interruption(): CommandError {
  return new CommandError('Interrupted.', { exitCode: exitCode.interrupted })
}

/** Whether it was somebody who wanted it. */
export function isInterruption(error: unknown): boolean {
  return error instanceof CommandError && error.exitCode === exitCode.interrupted
}

export function usageError(message: string, hint?: string): CommandError {
  return new CommandError(message, { exitCode: exitCode.usage, hint })
}

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
