import { useData } from 'vitepress'
import { defineComponent, h, ref } from 'vue'

const command = 'npm create ackord@latest'

/** The command that starts a project, with a button that copies it, and the version of the packages. */
export const InstallLine = defineComponent({
  name: 'InstallLine',
  setup() {
    const { theme } = useData()
    const label = ref('Copy')
    async function copy() {
      try {
        await navigator.clipboard.writeText(command)
        label.value = 'Copied'
      } catch {
        // Browsers refuse the clipboard to pages without HTTPS.
        label.value = 'Not allowed'
      }
      setTimeout(() => {
        label.value = 'Copy'
      }, 2000)
    }
    return () =>
      h('div', { class: 'install-line' }, [
        h('div', { class: 'install-command' }, [
          h('code', command),
          h('button', { type: 'button', 'aria-live': 'polite', title: `Copy ${command}`, onClick: copy }, label.value),
        ]),
        h('p', [
          `Version ${theme.value.version} · Node 20.19 or later · MIT`,
          theme.value.repository === undefined ? '' : [' · ', h('a', { href: theme.value.repository }, 'Source')],
        ]),
      ])
  },
})
