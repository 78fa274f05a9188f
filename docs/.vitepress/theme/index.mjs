import { withBase } from 'vitepress'
import theme from 'vitepress/theme'
import { h } from 'vue'
import { InstallLine } from './install-line.mjs'
import './style.css'
import './home.css'

const pictureText =
  'Save, then publish: the event is lost. Publish, then save: the event lies. Handle, then ack: charged twice. With Ackord, the inbox entry, the order and the event are one transaction, then the ack; a relay publishes the event to the broker.'

export default {
  extends: theme,
  Layout: () =>
    h(theme.Layout, null, {
      'home-hero-actions-after': () => h(InstallLine),
      'home-hero-image': () => h('img', { src: withBase('/dual-write.svg'), width: 460, height: 528, alt: pictureText }),
    }),
}
