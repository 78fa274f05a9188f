import type { Logger } from '../../src/logger.ts'

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: object
  readonly text: string
}

/** Keeps what was logged. */
export function recordingLogger(): Logger & { readonly lines: LogLine[]; at(level: LogLine['level']): LogLine[] } {
  const lines: LogLine[] = []
  const record = (level: LogLine['level']) => (fields: object, text: string) => void lines.push({ level, fields, text })
  return {
    lines,
    at: (level) => lines.filter((line) => line.level === level),
    debug: record('debug'),
    info: record('info'),
    warn: record('warn'),
    error: record('error'),
  }
}
