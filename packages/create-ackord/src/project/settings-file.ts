import type { Setting } from '../pieces/piece.ts'
import { type Parts, settingsOf } from './parts.ts'

/** `src/settings.ts`: everything that differs from one environment to another, and the names at the broker. */
export function settingsFile(parts: Parts): string {
  const constants = settingsOf(parts).map(
    (setting) => `/** ${setting.meaning} */\nexport const ${setting.constant} = ${expressionOf(setting)}\n`,
  )
  return constants.join('\n')
}

function expressionOf({ variable, value }: Setting): string {
  const literal = typeof value === 'string' ? `'${value}'` : `${value}`
  if (variable === undefined) return literal
  const given = `process.env.${variable}`
  if (value === undefined) return given
  return typeof value === 'number' ? `Number(${given} ?? ${value})` : `${given} ?? ${literal}`
}
