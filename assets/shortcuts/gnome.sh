# GNOME: a custom shortcut (Settings > Keyboard shows it too)
path=/org/gnome/settings-daemon/plugins/media-keys/custom-keybindings/rigctl/
schema=org.gnome.settings-daemon.plugins.media-keys
gsettings set "$schema.custom-keybinding:$path" name 'rigctl: free the cards'
gsettings set "$schema.custom-keybinding:$path" command @COMMAND@
gsettings set "$schema.custom-keybinding:$path" binding '@KEY@'
# and its path added to the list:
gsettings get $schema custom-keybindings
