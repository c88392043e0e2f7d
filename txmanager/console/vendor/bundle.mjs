// Makes vendor/preact.js again: Preact, its hooks and htm in one module, and their licences beside it.
// Only whoever changes a version runs it: `node txmanager/console/vendor/bundle.mjs` (needs npm). Users need no build.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const VERSIONS = { preact: '10.29.8', htm: '3.1.1' }
const ESBUILD = '0.28.2'

const here = dirname(fileURLToPath(import.meta.url))
const work = mkdtempSync(join(tmpdir(), 'console-'))
const run = (command, ...args) => execFileSync(command, args, { cwd: work, stdio: ['ignore', 'pipe', 'inherit'] })

const packages = Object.entries(VERSIONS).map(([name, version]) => `${name}@${version}`)
run('npm', 'install', '--no-audit', '--no-fund', '--prefix', work, ...packages, `esbuild@${ESBUILD}`)
writeFileSync(join(work, 'entry.js'), `
export { h, render, Fragment } from 'preact'
export { useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect } from 'preact/hooks'
import { h } from 'preact'
import htm from 'htm'
export const html = htm.bind(h)
`)
const head = `/*! ${packages.join(', ')}: see LICENSES.txt. Made by bundle.mjs. */`
run(join(work, 'node_modules/.bin/esbuild'), 'entry.js', '--bundle', '--minify', '--format=esm', `--banner:js=${head}`,
  `--outfile=${join(here, 'preact.js')}`)
const licences = Object.entries(VERSIONS).map(
  ([name, version]) => `${name} ${version}\n\n${readFileSync(join(work, 'node_modules', name, 'LICENSE'), 'utf8')}`)
writeFileSync(join(here, 'LICENSES.txt'), licences.join('\n\n'))
rmSync(work, { recursive: true })
