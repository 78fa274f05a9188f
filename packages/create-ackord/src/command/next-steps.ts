import { relative } from 'node:path'
import { type PackageManager, runScript } from './package-manager.ts'

export interface NextStepsOptions {
  readonly manager: PackageManager
  readonly installed: boolean
  readonly folder: string
  readonly workingDirectory: string
  /** Whether there is a compose.yaml. */
  readonly hasServers: boolean
}

/** The commands to type next. */
export function nextSteps({ manager, installed, folder, workingDirectory, hasServers }: NextStepsOptions): string {
  const path = relative(workingDirectory, folder)
  const lines = [
    path === '' ? undefined : `cd ${/\s/.test(path) ? `"${path}"` : path}`,
    installed ? undefined : `${manager} install`,
    hasServers ? 'docker compose up --detach --wait' : undefined,
    runScript(manager, 'test'),
    runScript(manager, 'start'),
    `${runScript(manager, 'send')}   # in another terminal: sends a command twice`,
  ]
  const shown = lines.filter((line) => line !== undefined).map((line) => `  ${line}\n`)
  return `\nNext:\n${shown.join('')}\n`
}
