import type { Logger } from '@ackord/core'

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: object
  readonly text: string
}

export interface RecordingLogger extends Logger {
  readonly lines: readonly LogLine[]
  at(level: LogLine['level']): LogLine[]
}

/** Keeps what was logged, and prints nothing. */
export function recordingLogger(): RecordingLogger {
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
