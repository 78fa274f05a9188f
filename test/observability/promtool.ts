import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { promtool } from '../../scripts/servers/tools.mjs'

export interface PromtoolResult {
  readonly code: number
  readonly output: string
}

/** `files`: written as YAML into an empty directory, in which the command runs. */
export async function runPromtool(args: readonly string[], files: Readonly<Record<string, unknown>> = {}): Promise<PromtoolResult> {
  const binary = promtool.locate()
  if (binary === undefined)
    throw new Error('promtool is not installed: run the tests through scripts/services, or install prometheus (its name in Debian).')
  const directory = mkdtempSync(join(tmpdir(), 'ackord-promtool-'))
  try {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), stringify(content))
    return await new Promise((resolve, reject) => {
      execFile(binary, args, { cwd: directory }, (error, stdout, stderr) => {
        const output = stdout + stderr
        if (error === null) resolve({ code: 0, output })
        else if (typeof error.code === 'number') resolve({ code: error.code, output })
        else reject(error)
      })
    })
  } finally {
    rmSync(directory, { recursive: true })
  }
}
