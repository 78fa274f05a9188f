// @ts-check
import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { findBinary } from './find-binary.mjs'
import { adoptPath, releasePath } from './orphans.mjs'

const policy = '/usr/sbin/policy-rc.d'

export function canAptInstall() {
  return process.getuid?.() === 0 && findBinary('apt-get') !== undefined
}

/**
 * Installs packages without prompts, and starts no daemons.
 *
 * @param {readonly string[]} packages
 */
export async function aptInstall(packages) {
  const holds = holdDaemons()
  try {
    // The update may fail for one of many sources and still cover our packages; the installation shows it.
    await run('apt-get', ['update'])
    const { code, output } = await run('apt-get', [
      ...['install', '--yes', '--no-install-recommends', '-o', 'Dpkg::Options::=--force-confold'],
      ...['-o', 'DPkg::Lock::Timeout=300', '--', ...packages],
    ])
    if (code === 0) return
    const errors = output.split('\n').filter((line) => line.startsWith('E: '))
    throw new Error(errors.length > 0 ? errors.join(' ') : output.trimEnd().split('\n').slice(-5).join('\n  '))
  } finally {
    if (holds) {
      rmSync(policy, { force: true })
      releasePath(policy)
    }
  }
}

/** Debian's packages call this script to check whether they may start a daemon after the installation. */
function holdDaemons() {
  try {
    writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755, flag: 'wx' })
    adoptPath(policy)
    return true
  } catch {
    return false // the file exists already, and is not ours
  }
}

/**
 * In a separate process group: Ctrl-C must not stop dpkg halfway.
 *
 * @param {string} file
 * @param {string[]} args
 * @returns {Promise<{ code: number | null, output: string }>}
 */
function run(file, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      detached: true,
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text
      })
    }
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}
