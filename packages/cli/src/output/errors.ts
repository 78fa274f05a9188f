export interface CommandErrorOptions {
  readonly exitCode: ExitCode
  /** How to fix it, in one line. Default: no hint. */
  readonly hint?: string | undefined
  readonly cause?: unknown
}

/** A failure that is reported to the user in one line and a hint, without a stack. */
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

/** Stopped by Ctrl-C or a signal: the abort reason of a session's signal. */
export function interruption(): CommandError {
  return new CommandError('Interrupted.', { exitCode: exitCode.interrupted })
}

/** Whether the user asked for it. */
export function isInterruption(error: unknown): boolean {
  return error instanceof CommandError && error.exitCode === exitCode.interrupted
}

export function usageError(message: string, hint?: string): CommandError {
  return new CommandError(message, { exitCode: exitCode.usage, hint })
}

/** The exit codes of the command. Scripts rely on the numbers: docs/guides/command.md lists them. */
export const exitCode = {
  ok: 0,
  /** The command ran, and its work or its check failed. */
  failed: 1,
  /** Arguments, environment or configuration file. */
  usage: 2,
  unreachable: 3,
  /** Credentials, privileges, or a database that does not exist. */
  refused: 4,
  /** The tables are missing, or of another version. */
  schema: 5,
  /** `relay --once` has ended, and records are left. */
  incomplete: 6,
  /** Ctrl-C or SIGTERM before the end. */
  interrupted: 130,
} as const

export type ExitCode = (typeof exitCode)[keyof typeof exitCode]
