import { handlerFiles } from './application-files.ts'
import { mainProgram } from './main-program.ts'
import type { Parts } from './parts.ts'

/** The files that put the parts together, with `src/main.ts`, and the handlers with their test. */
export function programFiles({ store, broker, framework }: Parts): Readonly<Record<string, string>> {
  if (framework.program !== undefined) return framework.program(store, broker)
  return { ...handlerFiles, 'src/main.ts': mainProgram(store, broker, framework) }
}
