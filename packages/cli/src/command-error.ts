import { type ExitCode, exitCode } from './exit-code.ts'

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
