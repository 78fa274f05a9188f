#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { askQuestions } from './command/questions.ts'
import { run } from './command/run.ts'

const isTerminal = process.stdin.isTTY && process.stdout.isTTY

process.exitCode = await run({
  args: process.argv.slice(2),
  workingDirectory: process.cwd(),
  userAgent: process.env['npm_config_user_agent'],
  askQuestions: isTerminal ? askQuestions : undefined,
  async install(manager, directory) {
    // On Windows the package managers are scripts, which only a shell can start.
    const child = spawn(manager, ['install'], { cwd: directory, stdio: 'inherit', shell: process.platform === 'win32' })
    const [code] = await once(child, 'close').catch(() => [1])
    return code === 0
  },
  print: (text) => void process.stdout.write(text),
  printError: (text) => void process.stderr.write(text),
})
